"""The application: from its command line to its report."""
