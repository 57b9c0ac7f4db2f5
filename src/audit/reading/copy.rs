//! The sections of files that a copy of the log has.

use super::{LogFile, LogFiles, find};
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::path::PathBuf;

impl LogFiles {
    /// What of each file a copy has that begins with this record; 0: with the oldest.
    pub fn copy(&self, from: u64) -> io::Result<Vec<Section>> {
        let list = self.list()?;
        let first = list.iter().rposition(|file| file.first <= from);
        let mut sections = Vec::new();
        for file in list.into_iter().skip(first.unwrap_or(0)) {
            sections.extend(Section::of(file, from)?);
        }
        Ok(sections)
    }
}

/// A part of a file of the log.
#[derive(Debug)]
pub struct Section {
    file: SectionFile,
    begin: u64,
    /// Its bytes.
    pub length: u64,
}

#[derive(Debug)]
enum SectionFile {
    Open(File),
    /// Opened when it is its turn: there may be many.
    Named(PathBuf),
}

impl Section {
    fn of(file: LogFile, from: u64) -> io::Result<Option<Self>> {
        if file.current.is_none() && file.first >= from {
            return Ok(Some(Self {
                begin: 0,
                length: fs::metadata(&file.path)?.len(),
                file: SectionFile::Named(file.path),
            }));
        }
        let Some((file, whole)) = file.open()? else {
            return Ok(None);
        };
        let begin = if from == 0 {
            0
        } else {
            find(&file, whole, from)?
        };
        Ok(Some(Self {
            file: SectionFile::Open(file),
            begin,
            length: whole - begin,
        }))
    }

    /// Opens it at its beginning. An error: rotation has removed it meanwhile, for example.
    pub fn open(self) -> io::Result<File> {
        let mut file = match self.file {
            SectionFile::Open(file) => file,
            SectionFile::Named(path) => File::open(path)?,
        };
        file.seek(SeekFrom::Start(self.begin))?;
        Ok(file)
    }
}
