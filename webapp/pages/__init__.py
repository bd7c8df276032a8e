"""One folder per page; page.py is the script that Streamlit runs."""
