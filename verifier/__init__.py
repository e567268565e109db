"""The trusted side: from untrusted files to the one authoritative score."""
