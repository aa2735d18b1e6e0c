"""Pages for people in a browser, made only from the API's answers to the visitor's own token."""
