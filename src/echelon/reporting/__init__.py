"""What `echelon report` puts on its page: run folders to plain data, data to one HTML file."""
