//! The sizing rules of arXiv 2401.14489 and its follow-ups, as data.
