"""What comes out of a solve: labelled arrays with errors, files, laws, provenance."""
