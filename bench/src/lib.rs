//! Load, a fast server and measurements for the gateway: see README.md.
