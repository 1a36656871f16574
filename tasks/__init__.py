"""One module per thing that a machine gets; deploy.py holds the order."""
