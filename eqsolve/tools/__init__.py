"""What only the command line uses: the doctor, new model files, citations."""
