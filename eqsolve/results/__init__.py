"""What comes out of a solve: labelled arrays with errors, files, laws, and where the numbers come from."""
