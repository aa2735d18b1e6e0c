"""`purse demo`: the service on a real dataset, from upload to refusal."""
