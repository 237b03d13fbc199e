"""What people see of gradient tuning: the page, and the files of a delivery in words."""
