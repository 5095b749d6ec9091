//! The benchmark suite: scenarios, data planes, results, reports.
