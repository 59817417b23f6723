//! Tells when files have changed: written, replaced, swapped behind a symbolic link, or opened to others. It reads what
//! changed only to see whether its bytes did, and judges nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ring::digest::{Digest, SHA256, digest};

/// How soon a changed file is noticed without a signal.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Larger files are told apart by their stamps alone. No key, certificate bundle or configuration comes near it.
const MAX_COMPARED: u64 = 4 << 20;

#[derive(Default)]
pub(super) struct Watch {
    seen: BTreeMap<PathBuf, Seen>,
}

struct Seen {
    stamp: Option<Stamp>,
    state: State,
}

/// Tells one state of a file from another, at the cost of one system call. A link is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    mode: u32,
    modified: (i64, i64),
    /// Changes with rights and owner too.
    changed: (i64, i64),
}

/// What matters to whoever reads the file.
#[derive(PartialEq)]
enum State {
    Absent,
    Holds {
        mode: u32,
        digest: [u8; 32],
    },
    /// Not read: too large, no file, or no right to.
    Opaque(Stamp),
}

impl Watch {
    /// Watches exactly these from now on. What was watched before stays as it was noted, so that no change of it between
    /// then and now goes by.
    pub(super) fn follow(&mut self, files: impl IntoIterator<Item = PathBuf>) {
        let mut before = std::mem::take(&mut self.seen);
        self.seen = files
            .into_iter()
            .map(|path| {
                let seen = before.remove(&path).unwrap_or_else(|| Seen::look(&path));
                (path, seen)
            })
            .collect();
    }

    /// Whether one of them has changed since this was last asked, or since it is watched. Ask before reading: what changes
    /// while it is read is told the next time.
    pub(super) fn changed(&mut self) -> bool {
        let mut changed = false;
        for (path, seen) in &mut self.seen {
            if Stamp::of(path) == seen.stamp {
                continue;
            }
            let now = Seen::look(path);
            changed |= now.state != seen.state;
            *seen = now;
        }
        changed
    }
}

impl Seen {
    fn look(path: &Path) -> Seen {
        // The stamp first: what is written after it was taken differs from it.
        let stamp = Stamp::of(path);
        let state = match stamp {
            None => State::Absent,
            Some(stamp) => match stamp.digest(path) {
                Some(digest) => {
                    let mut bytes = [0; 32];
                    bytes.copy_from_slice(digest.as_ref());
                    State::Holds { mode: stamp.mode, digest: bytes }
                }
                None => State::Opaque(stamp),
            },
        };
        Seen { stamp, state }
    }
}

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(path).ok()?;
        Some(Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            mode: metadata.mode(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    fn digest(&self, path: &Path) -> Option<Digest> {
        // Opening a pipe would wait for its writer.
        if !std::fs::metadata(path).ok()?.is_file() || self.length > MAX_COMPARED {
            return None;
        }
        let content = zeroize::Zeroizing::new(std::fs::read(path).ok()?);
        Some(digest(&SHA256, &content))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use tempfile::TempDir;

    use super::*;

    struct Fixture {
        dir: TempDir,
        watch: Watch,
    }

    impl Fixture {
        fn watching(name: &str) -> Fixture {
            let dir = TempDir::new().unwrap();
            let mut fixture = Fixture { dir, watch: Watch::default() };
            fixture.put("file", "first");
            fixture.watch.follow([fixture.path(name)]);
            fixture
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn put(&self, name: &str, content: &str) {
            fs::write(self.path(name), content).unwrap();
            // File systems stamp by a clock of some milliseconds; a test is faster than that.
            let past = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(content.len() as u64);
            fs::File::options().write(true).open(self.path(name)).unwrap().set_modified(past).unwrap();
        }
    }

    #[test]
    fn a_file_is_changed_once_by_each_change() {
        let mut fixture = Fixture::watching("file");
        assert!(!fixture.watch.changed());
        fixture.put("file", "second!");
        assert!(fixture.watch.changed());
        assert!(!fixture.watch.changed());
        fs::remove_file(fixture.path("file")).unwrap();
        assert!(fixture.watch.changed());
        assert!(!fixture.watch.changed());
        fixture.put("file", "third");
        assert!(fixture.watch.changed());
    }

    #[test]
    fn a_file_that_is_only_touched_or_written_as_it_was_is_not_changed() {
        let mut fixture = Fixture::watching("file");
        let later = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        fs::File::options().write(true).open(fixture.path("file")).unwrap().set_modified(later).unwrap();
        assert!(!fixture.watch.changed());
        fixture.put("other", "first");
        fs::rename(fixture.path("other"), fixture.path("file")).unwrap();
        assert!(!fixture.watch.changed());
    }

    #[test]
    fn the_rights_of_a_file_are_part_of_it() {
        let mut fixture = Fixture::watching("file");
        fs::set_permissions(fixture.path("file"), Permissions::from_mode(0o604)).unwrap();
        assert!(fixture.watch.changed());
        fs::set_permissions(fixture.path("file"), Permissions::from_mode(0o600)).unwrap();
        assert!(fixture.watch.changed());
    }

    /// As Kubernetes mounts a Secret: `file -> ..data/file`, `..data -> ..first`, and the latter is replaced by rename.
    #[test]
    fn a_link_that_is_swapped_on_the_way_to_a_file_changes_it() {
        let mut fixture = Fixture::watching("mounted");
        assert!(!fixture.watch.changed(), "it is not there yet");
        for (directory, content) in [("..first", "one"), ("..second", "two"), ("..third", "two")] {
            fs::create_dir(fixture.path(directory)).unwrap();
            fixture.put(&format!("{directory}/file"), content);
        }
        symlink("..first", fixture.path("..data")).unwrap();
        symlink("..data/file", fixture.path("mounted")).unwrap();
        assert!(fixture.watch.changed());
        for (next, differs) in [("..second", true), ("..third", false)] {
            symlink(next, fixture.path("..tmp")).unwrap();
            fs::rename(fixture.path("..tmp"), fixture.path("..data")).unwrap();
            assert_eq!(fixture.watch.changed(), differs, "{next}");
        }
    }

    #[test]
    fn what_is_still_followed_is_not_noted_anew() {
        let mut fixture = Fixture::watching("file");
        fixture.put("file", "changed");
        fixture.watch.follow([fixture.path("file"), fixture.path("other")]);
        assert!(fixture.watch.changed());
        fixture.put("other", "new");
        assert!(fixture.watch.changed());
        fixture.watch.follow([fixture.path("other")]);
        fixture.put("file", "of no interest");
        assert!(!fixture.watch.changed());
    }

    #[test]
    fn pipes_and_directories_are_told_apart_without_being_opened() {
        let mut fixture = Fixture::watching("pipe");
        nix::unistd::mkfifo(&fixture.path("pipe"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(fixture.watch.changed());
        fs::remove_file(fixture.path("pipe")).unwrap();
        fs::create_dir(fixture.path("pipe")).unwrap();
        assert!(fixture.watch.changed());
    }
}
