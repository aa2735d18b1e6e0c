"""Jobs: asked for, priced, queued, run, and what is published of them."""
