"""Chat: conversations, loss on the answers, a session with a user."""

from headway.tasks.chat.config import Chat

__all__ = ["Chat"]
