"""What stewards do with a dataset that is there: amend it, freeze it, delete its values."""
