"""Numbers of f03 by scene; `spec.py` is the place that everything else imports."""
