"""Which draft and how many drafted tokens at every load: found with few runs, as something one deploys."""
