//! The brake on guessed passwords: failures per user and address, and per address, within a window.
