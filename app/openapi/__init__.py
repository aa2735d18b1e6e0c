"""The OpenAPI document, complete, and the page that shows it."""
