//! Everything that a request may need, put together from the config.
