//! How the services of the sample are started: ours, or the Spring ones. Pure, but for a look at
//! whether a file is there.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::layout::sample::{API_GATEWAY_LISTENS, RATINGS_LISTENS, Started};
use crate::results::Application;

/// Where the Spring services are, seen from the folder that the benchmark is started in.
const JAVA: &str = "examples/bookinfo-java";

/// Api-gateway, which is to call ratings at `ratings`.
///
/// # Errors
/// When it was not built.
pub(super) fn api_gateway(
    application: Application,
    launcher: &Path,
    ratings: SocketAddr,
) -> anyhow::Result<Started> {
    let url = format!("http://{ratings}");
    Ok(match application {
        Application::Static => {
            let mut started = ours(launcher, "gateway", API_GATEWAY_LISTENS);
            let upstream = ["--upstream".to_owned(), format!("ratings={url}")];
            started.command.extend(upstream);
            started
        }
        Application::Java => Started {
            env: vec![("RATINGS_URL".to_owned(), url)],
            ..spring("api-gateway")?
        },
    })
}

/// Ratings.
///
/// # Errors
/// When it was not built.
pub(super) fn ratings(application: Application, launcher: &Path) -> anyhow::Result<Started> {
    match application {
        Application::Static => Ok(ours(launcher, "ratings", RATINGS_LISTENS)),
        Application::Java => spring("ratings"),
    }
}

fn ours(launcher: &Path, role: &str, listen: SocketAddr) -> Started {
    let mut command = vec![launcher.display().to_string()];
    let words = ["load", "serve", "bookinfo", role, "--listen"];
    command.extend(words.map(str::to_owned));
    command.push(listen.to_string());
    Started {
        command,
        env: Vec::new(),
        ready: "/health",
    }
}

fn spring(name: &str) -> anyhow::Result<Started> {
    let jar: PathBuf = [JAVA, name, "target", &format!("{name}.jar")]
        .iter()
        .collect();
    let found = std::fs::canonicalize(&jar);
    let found = found.with_context(|| {
        let jar = jar.display();
        format!("there is no {jar}: build it with `mvn -f {JAVA}/pom.xml package`")
    })?;
    let words = ["java", "-Xmx256m", "-jar"].map(str::to_owned);
    let jar = found.display().to_string();
    Ok(Started {
        command: words.into_iter().chain([jar]).collect(),
        env: Vec::new(),
        ready: "/actuator/health",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_gateway_is_told_where_ratings_are() {
        let at = "10.80.0.11:8101".parse().unwrap();
        let started = api_gateway(Application::Static, Path::new("/leno"), at).unwrap();
        assert_eq!(
            started.command.join(" "),
            "/leno load serve bookinfo gateway --listen 0.0.0.0:10000 --upstream \
             ratings=http://10.80.0.11:8101"
        );
    }

    #[test]
    fn what_was_not_built_is_named_with_what_builds_it() {
        let error = ratings(Application::Java, Path::new("/leno")).unwrap_err();
        let said = format!("{error:#}");
        assert!(
            said.contains("ratings.jar") && said.contains("mvn -f"),
            "{said}"
        );
    }
}
