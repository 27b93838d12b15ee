"""The crawl: pages of the web by HTTP, politely, in an order that does not depend on who was quicker."""
