"""This machine: settings, quiet windows, memory, private files, disk space, ports. Imports only the errors of lab."""
