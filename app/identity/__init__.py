"""Authentication and authorization: identities, tokens, sign-on and the permissions of each role."""
