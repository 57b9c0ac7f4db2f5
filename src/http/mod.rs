//! The way of a request: limit, route, identify, authorize, act, answer.
