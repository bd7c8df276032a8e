"""The External results page: imported result files and published figures."""
