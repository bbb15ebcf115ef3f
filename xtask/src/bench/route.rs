//! The routes that a benchmark compares.

/// The route of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchRoute {
    /// Directly to the server.
    Direct,
    /// Through nginx.
    Nginx,
    /// Through the gateway.
    Toolbooth,
}

impl BenchRoute {
    /// Its name in samples and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Nginx => "nginx",
            Self::Toolbooth => "toolbooth",
        }
    }
}
