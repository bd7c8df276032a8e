"""The API, `/api/v1`: what pages and commands do, for programs. It runs in the page's process, with the same roles."""
