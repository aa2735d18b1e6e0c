"""Who asks: identities, their tokens, sign-on, and what each role may do."""
