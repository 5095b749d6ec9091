//! The repository as tidy sees it: every text file that belongs to it, read once.
//! Knows what is ours and what is built or downloaded; must never follow links out of the tree.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Folders that are made, not written.
const MADE: &[&str] = &[
    ".git",
    ".venv",
    "dist",
    "results",
    "target",
    "artifacts",
    "coverage",
];

/// Larger files are data, not text that someone wrote. The longest document has a few tens of KiB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// One text file of the repository.
#[derive(Debug, Clone)]
pub struct File {
    /// Relative to the root, with forward slashes.
    pub path: String,
    /// The whole text.
    pub text: String,
}

impl File {
    /// The extension, or an empty string.
    #[must_use]
    pub fn extension(&self) -> &str {
        self.name()
            .rsplit_once('.')
            .map_or("", |(_, extension)| extension)
    }

    /// The last part of the path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Whether the whole file is test code: sizes and names are not checked there.
    #[must_use]
    pub fn is_test(&self) -> bool {
        let mut parts = self.path.split('/');
        self.name() == "tests.rs"
            || parts.any(|part| matches!(part, "tests" | "benches" | "examples" | "fuzz"))
    }
}

/// All text files, sorted by path.
#[derive(Debug, Default)]
pub struct Tree {
    /// The root folder.
    pub root: PathBuf,
    /// Sorted by path.
    pub files: Vec<File>,
}

impl Tree {
    /// Reads every text file under `root`; an error when a folder or file cannot be read.
    pub fn read(root: &Path) -> Result<Self> {
        let mut tree = Self {
            root: root.to_path_buf(),
            files: Vec::new(),
        };
        tree.read_folder(root)?;
        tree.files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(tree)
    }

    /// The file at `path`, if there is one.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The files with this extension.
    pub fn with_extension<'a>(&'a self, extension: &'a str) -> impl Iterator<Item = &'a File> {
        self.files
            .iter()
            .filter(move |file| file.extension() == extension)
    }

    fn read_folder(&mut self, folder: &Path) -> Result<()> {
        let entries = fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() && !is_made(&entry) {
                self.read_folder(&entry.path())?;
            } else if kind.is_file() && entry.metadata()?.len() <= FILE_BYTES_MAX {
                self.read_file(&entry.path())?;
            }
        }
        Ok(())
    }

    fn read_file(&mut self, path: &Path) -> Result<()> {
        let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        // Binary files (fuzz corpora, figures) are nobody's prose.
        let Ok(text) = String::from_utf8(bytes) else {
            return Ok(());
        };
        let relative = path.strip_prefix(&self.root).expect("walked from the root");
        let path = relative.to_string_lossy().replace('\\', "/");
        self.files.push(File { path, text });
        Ok(())
    }
}

/// The root of this repository: two above this crate.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("the crate is two below the root")
        .to_path_buf()
}

fn is_made(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy().into_owned();
    // `target` is also a fair name for a module; the built one lies at a workspace's root.
    MADE.contains(&name.as_str())
        && !entry
            .path()
            .components()
            .any(|part| part.as_os_str() == "src")
}
