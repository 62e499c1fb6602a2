"""Checkers, one a promise: each sees what happens and says whether its promise holds."""
