//! Listeners, workers, TLS, connections, the operations listener, drain.
