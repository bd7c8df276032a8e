"""The web server: Starlette application, page list and Streamlit work-arounds."""
