"""Family f07: contact-rich bin clearing with a magnet on a seven-joint arm."""
