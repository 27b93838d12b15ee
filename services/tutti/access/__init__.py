"""Access: users, login links and sessions."""
