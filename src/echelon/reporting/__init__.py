"""`echelon report`: run folders become plain data, and the data one HTML file."""
