//! `leno cert`: an authority on files, the certificates that it issues, and what is in them.
//! Called by `main`. Never prints or copies a private key.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use clap::{Subcommand, ValueHint};
use identity::SpiffeId;
use identity::ca::Authority;
use identity::certificate;
use time::OffsetDateTime;

/// Make and inspect the certificates of a mesh that runs from files.
///
/// First an authority, once per mesh; then one certificate per workload:
///
///   leno cert ca --out mesh
///   leno cert issue --ca mesh --namespace default --service-account web --out mesh --name web
///   leno cert show mesh/web.pem
///
/// leno-proxy then takes `certificate: web.pem`, `key: web.key` and `trustBundle: ca.pem`.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Ca(Ca),
    Issue(Issue),
    Show(Show),
}

/// Make an authority: ca.pem (the trust bundle of the mesh) and ca.key (0600, keep it safe).
///
/// The authority is valid for ten years. Whoever has ca.key can be any workload of the mesh.
#[derive(clap::Args)]
struct Ca {
    /// Directory for ca.pem and ca.key; made if absent.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: PathBuf,

    /// The trust domain: the first part of every id in the mesh.
    #[arg(long, value_name = "NAME", default_value = "cluster.local")]
    trust_domain: String,

    /// Replace an authority that is there; certificates that it issued are then worth nothing.
    #[arg(long)]
    force: bool,
}

/// Issue a certificate for a workload: NAME.pem (its chain) and NAME.key (0600).
///
/// Say who the workload is by --id, or by --namespace and --service-account. Existing files of
/// that name are replaced, each in one step: a running leno-proxy takes the new ones up.
#[derive(clap::Args)]
struct Issue {
    /// Directory with ca.pem and ca.key.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    ca: PathBuf,

    /// The whole SPIFFE id: spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/SERVICE-ACCOUNT.
    #[arg(long, value_name = "ID", conflicts_with_all = ["namespace", "service_account"])]
    id: Option<SpiffeId>,

    /// The namespace, where --id is not given.
    #[arg(long, value_name = "NAME", requires = "service_account")]
    namespace: Option<String>,

    /// The service account, where --id is not given.
    #[arg(long, value_name = "NAME", requires = "namespace")]
    service_account: Option<String>,

    /// Directory for the two files; made if absent.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: PathBuf,

    /// Name of the files, without ending.
    #[arg(long, value_name = "NAME", value_parser = file_stem)]
    name: String,

    /// How long it is valid: a number with s, m, h or d. Never longer than the authority is.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
    ttl: Duration,
}

/// Show what is in certificate files: who, from whom, valid from when to when.
///
/// Fails if a file holds no certificate, or one that is not valid now.
#[derive(clap::Args)]
struct Show {
    /// PEM files; every certificate in them is shown.
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Ca(args) => make_authority(&args),
        Command::Issue(args) => issue(args),
        Command::Show(args) => show(&args),
    }
}

fn make_authority(args: &Ca) -> anyhow::Result<()> {
    let [certificate, key] = ["ca.pem", "ca.key"].map(|name| args.out.join(name));
    if let Some(there) = [&certificate, &key].into_iter().find(|path| path.exists())
        && !args.force
    {
        bail!(
            "{} is there already; choose another --out, or --force to replace it",
            there.display()
        );
    }
    let authority = Authority::create(&args.trust_domain, SystemTime::now())?;
    authority.save(&args.out)?;
    let summary = certificate::summary(authority.certificate())?;
    println!("authority of {}", authority.trust_domain());
    print_validity(&summary)?;
    print_file(
        "certificate",
        &certificate,
        "the trust bundle of every workload",
    );
    print_file("key", &key, "mode 0600; whoever has it can be any workload");
    Ok(())
}

fn issue(args: Issue) -> anyhow::Result<()> {
    if args.id.is_none() && args.namespace.is_none() {
        bail!("say who the workload is: --id, or --namespace and --service-account");
    }
    let authority = Authority::load(&args.ca)?;
    let id = match args.id {
        Some(id) => id,
        None => SpiffeId::of_service_account(
            authority.trust_domain(),
            &args.namespace.unwrap_or_default(),
            &args.service_account.unwrap_or_default(),
        )?,
    };
    let issued = authority.issue(&id, args.ttl, SystemTime::now())?;
    issued.save(&args.out, &args.name)?;
    let [certificate, key] =
        ["pem", "key"].map(|end| args.out.join(format!("{}.{end}", args.name)));
    let summary = summaries(&certificate)?
        .into_iter()
        .next()
        .context("nothing was written")?;
    println!("{id}");
    print_validity(&summary)?;
    println!("  {:<12} {}", "issuer", summary.issuer);
    print_file("certificate", &certificate, "chain, leaf first");
    print_file("key", &key, "mode 0600");
    Ok(())
}

fn show(args: &Show) -> anyhow::Result<()> {
    let mut invalid = Vec::new();
    for file in &args.files {
        for summary in summaries(file)? {
            println!("{}", summary.subject);
            if !print_validity(&summary)? {
                invalid.push(format!("{} in {}", summary.subject, file.display()));
            }
            println!("  {:<12} {}", "issuer", summary.issuer);
            println!("  {:<12} {}", "serial", summary.serial);
            println!("  {:<12} {}", "sha256", summary.sha256);
            let kind = if summary.is_authority {
                "authority"
            } else {
                "workload"
            };
            print_file("certificate", file, kind);
        }
    }
    if !invalid.is_empty() {
        bail!(
            "not valid now: {}; issue a new one with `leno cert issue`",
            invalid.join(", ")
        );
    }
    Ok(())
}

fn summaries(file: &Path) -> anyhow::Result<Vec<certificate::Summary>> {
    let list = certificate::read_file(file)?;
    list.iter()
        .map(|der| Ok(certificate::summary(der)?))
        .collect()
}

/// Prints the validity and how much is left of it; whether it is valid now.
fn print_validity(summary: &certificate::Summary) -> anyhow::Result<bool> {
    let parse = |text| OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339);
    let (from, to) = (parse(&summary.not_before)?, parse(&summary.not_after)?);
    let now = OffsetDateTime::now_utc();
    let note = match now {
        now if now < from => "not valid yet".to_owned(),
        now if now > to => format!("EXPIRED {} ago", rough(now - to)),
        now => format!("{} left", rough(to - now)),
    };
    println!(
        "  {:<12} {} to {} ({note})",
        "valid", summary.not_before, summary.not_after
    );
    Ok(from <= now && now <= to)
}

fn print_file(what: &str, path: &Path, note: &str) {
    println!("  {what:<12} {} ({note})", path.display());
}

/// The two largest units: "23 h 59 min".
pub(super) fn rough(span: time::Duration) -> String {
    let minutes = span.whole_minutes();
    match minutes {
        0 => format!("{} s", span.whole_seconds()),
        1..60 => format!("{minutes} min"),
        60..1440 => format!("{} h {} min", minutes / 60, minutes % 60),
        _ => format!("{} days", minutes / 1440),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time; write a number with s, m, h or d, as in 24h");
    let (number, unit) = text.split_at(text.len() - text.chars().last().map_or(0, char::len_utf8));
    let seconds_per_unit: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number
        .checked_mul(seconds_per_unit)
        .map(Duration::from_secs)
        .ok_or_else(wrong)
}

fn file_stem(text: &str) -> Result<String, String> {
    match Path::new(text).file_name() {
        Some(name) if name == text && text != "ca" => Ok(text.to_owned()),
        Some(name) if name == text => Err("`ca` is the authority's own name".to_owned()),
        _ => Err("give a name without slashes; the directory is --out".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn leno_cert(args: &[&str]) -> anyhow::Result<()> {
        run(Cli::try_parse_from([&["cert"], args].concat())?.args)
    }

    #[test]
    fn times_are_numbers_with_a_unit() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("24h"), Ok(Duration::from_secs(86_400)));
        for wrong in [
            "",
            "24",
            "h",
            "1w",
            "-1h",
            "1.5h",
            "24\u{b5}",
            "99999999999999999999d",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_stay_inside_the_directory() {
        assert_eq!(file_stem("web-1.default"), Ok("web-1.default".to_owned()));
        for wrong in ["", "ca", "../web", "a/b", "/web", ".."] {
            assert!(file_stem(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn authority_issues_and_is_not_replaced_by_accident() {
        let dir = tempfile::tempdir().unwrap();
        let mesh = dir.path().join("mesh");
        let mesh = mesh.to_str().unwrap();
        leno_cert(&["ca", "--out", mesh]).unwrap();
        assert!(
            leno_cert(&["ca", "--out", mesh])
                .unwrap_err()
                .to_string()
                .contains("--force")
        );
        let workload = [
            "--namespace",
            "default",
            "--service-account",
            "web",
            "--name",
            "web",
        ];
        leno_cert(&[&["issue", "--ca", mesh, "--out", mesh], &workload[..]].concat()).unwrap();
        let id = [
            "--id",
            "spiffe://cluster.local/ns/a/sa/b",
            "--name",
            "b",
            "--ttl",
            "1h",
        ];
        leno_cert(&[&["issue", "--ca", mesh, "--out", mesh], &id[..]].concat()).unwrap();
        let pem = |name| format!("{mesh}/{name}.pem");
        leno_cert(&["show", &pem("ca"), &pem("web"), &pem("b")]).unwrap();
        assert!(leno_cert(&["show", &format!("{mesh}/web.key")]).is_err());
    }

    #[test]
    fn workload_must_be_named_once() {
        let issue = |args: &[&str]| {
            let base = [
                "issue", "--ca", "nowhere", "--out", "nowhere", "--name", "x",
            ];
            leno_cert(&[&base, args].concat()).unwrap_err().to_string()
        };
        assert!(issue(&[]).contains("--id"));
        assert!(issue(&["--namespace", "a"]).contains("--service-account"));
        assert!(issue(&["--id", "spiffe://td/w", "--namespace", "a"]).contains("cannot be used"));
        assert!(issue(&["--id", "web"]).contains("does not begin with"));
        assert!(issue(&["--id", "spiffe://td/w"]).contains("cannot read"));
    }
}
