"""Published numbers of statistics and evaluations, computed from noisy answers, and their widths before a purchase."""
