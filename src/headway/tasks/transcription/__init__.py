"""Transcription: the text of a sound, by a decoder or by connectionist temporal classification."""

from headway.tasks.transcription.config import Transcription

__all__ = ["Transcription"]
