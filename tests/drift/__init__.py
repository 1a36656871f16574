"""The drift matrix: everything that people do to a machine by hand, found, named and mended."""
