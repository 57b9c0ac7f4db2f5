//! Copies a database into another one: a file of SQLite into PostgreSQL, or back.
//!
//! The engine's history is not copied: it belongs to the flow files beside it.

use super::connection::{Connection, Row, Value, values};
use super::{Database, SAVE_FACT};
use crate::store::{Error, FREEZE, GENERATED_ADMIN};

/// What a column holds.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    Integer,
    Bytes,
    Boolean,
}

use Kind::{Boolean, Bytes, Integer, Text};

/// A table: its name, the rows that are copied, and its columns. Those that others refer to come
/// first.
struct Table {
    name: &'static str,
    rows: &'static str,
    columns: &'static [(&'static str, Kind)],
}

const TABLES: &[Table] = &[
    Table {
        name: "session",
        rows: "provider IS NULL",
        columns: &[
            ("token", Bytes),
            ("user", Text),
            ("client", Text),
            ("scope", Text),
            ("created", Integer),
            ("expires", Integer),
            ("password", Bytes),
            ("agent", Text),
            ("networks", Text),
            ("rate_limit", Text),
            ("creator", Text),
            ("confirmed", Integer),
            ("factor", Integer),
            ("mac", Bytes),
        ],
    },
    Table {
        name: "failure",
        rows: "TRUE",
        columns: &[
            ("number", Integer),
            ("user", Text),
            ("address", Text),
            ("at", Integer),
        ],
    },
    Table {
        name: "known_address",
        rows: "TRUE",
        columns: &[("user", Text), ("address", Text), ("at", Integer)],
    },
    Table {
        name: "used_code",
        rows: "TRUE",
        columns: &[("user", Text), ("code", Bytes), ("at", Integer)],
    },
    Table {
        name: "passkey",
        rows: "TRUE",
        columns: &[
            ("id", Bytes),
            ("user", Text),
            ("name", Text),
            ("handle", Bytes),
            ("rp", Text),
            ("algorithm", Integer),
            ("key", Bytes),
            ("counter", Integer),
            ("password", Bytes),
            ("created", Integer),
            ("last_used", Integer),
        ],
    },
    Table {
        name: "user_settings",
        rows: "TRUE",
        columns: &[("user", Text), ("value", Text)],
    },
    Table {
        name: "deployments",
        rows: "runtime <> ''",
        columns: &[
            ("number", Integer),
            ("rev", Text),
            ("user", Text),
            ("kind", Text),
            ("at", Integer),
            ("deployed", Boolean),
            ("flows_before", Bytes),
            ("credentials_before", Bytes),
            ("content", Bytes),
            ("credentials", Bytes),
            ("packed", Boolean),
            ("base", Integer),
            ("parent", Text),
            ("how", Text),
            ("address", Text),
            ("message", Text),
            ("nodes", Integer),
            ("added", Integer),
            ("changed", Integer),
            ("removed", Integer),
            ("runtime", Text),
            ("forgotten", Boolean),
            ("touched_bytes", Integer),
        ],
    },
    Table {
        name: "touched",
        rows: "number IN (SELECT number FROM deployments WHERE runtime <> '')",
        columns: &[
            ("number", Integer),
            ("id", Text),
            ("flow", Text),
            ("was_on", Text),
            ("difference", Text),
            ("credentials", Boolean),
        ],
    },
    Table {
        name: "tag",
        rows: "runtime <> ''",
        columns: &[("runtime", Text), ("name", Text), ("number", Integer)],
    },
    Table {
        name: "proposal",
        rows: "runtime <> ''",
        columns: &[
            ("number", Integer),
            ("runtime", Text),
            ("state", Text),
            ("user", Text),
            ("how", Text),
            ("address", Text),
            ("at", Integer),
            ("expires", Integer),
            ("kind", Text),
            ("base", Text),
            ("message", Text),
            ("owner", Text),
            ("decided_by", Text),
            ("decided_at", Integer),
            ("reason", Text),
            ("rev", Text),
            ("bytes", Integer),
            ("before", Bytes),
            ("after", Bytes),
            ("credentials", Bytes),
            ("replacing", Bytes),
        ],
    },
];

/// A value read from a row.
enum Owned {
    Text(Option<String>),
    Integer(Option<i64>),
    Bytes(Option<Vec<u8>>),
    Boolean(bool),
}

impl Database {
    /// Copies everything that gateways share into an empty database, all or nothing; answers how
    /// many rows.
    pub(in crate::store) fn copy_to(&self, to: &Self) -> Result<usize, Error> {
        for table in TABLES {
            let sql = format!("SELECT count(*) FROM {}", table.name);
            let there = to.connection.one(&sql, &[], |row| row.unsigned(0))?;
            if there > 0 {
                let name = table.name;
                return Err(Error::Database(format!(
                    "it has {there} rows in its table \"{name}\", and only an empty one can be copied to"
                )));
            }
        }
        let transaction = to.connection.begin()?;
        let mut copied = 0;
        for table in TABLES {
            for row in table.read(&self.connection)? {
                table.write(&transaction, &row)?;
                copied += 1;
            }
            if to.connection.is_shared()
                && table.columns[0].0 == "number"
                && table.name != "touched"
            {
                table.number_on(&transaction)?;
            }
        }
        for fact in [GENERATED_ADMIN, FREEZE] {
            if let Some(value) = self.fact(fact)? {
                transaction.execute(SAVE_FACT, values![fact, &*value])?;
            }
        }
        transaction.commit()?;
        Ok(copied)
    }
}

impl Table {
    fn names(&self) -> String {
        let names = self.columns.iter().map(|(name, _)| format!("\"{name}\""));
        names.collect::<Vec<_>>().join(", ")
    }

    fn read(&self, from: &Connection) -> Result<Vec<Vec<Owned>>, Error> {
        let sql = format!(
            "SELECT {} FROM {} WHERE {}",
            self.names(),
            self.name,
            self.rows
        );
        from.query(&sql, &[], |row| {
            let columns = self.columns.iter().enumerate();
            columns
                .map(|(place, (_, kind))| Owned::read(row, place, *kind))
                .collect()
        })
    }

    fn write(&self, to: &Connection, row: &[Owned]) -> Result<(), Error> {
        let places = vec!["?"; row.len()].join(", ");
        let sql = format!(
            "INSERT INTO {} ({}) VALUES ({places})",
            self.name,
            self.names()
        );
        let values: Vec<_> = row.iter().map(Owned::value).collect();
        to.execute(&sql, &values).map(drop)
    }

    /// Further rows get numbers after those that were copied.
    fn number_on(&self, to: &Connection) -> Result<(), Error> {
        let name = self.name;
        let sql = format!(
            "SELECT setval(pg_get_serial_sequence('{name}', 'number'), greatest(max(number), 1)) FROM {name}"
        );
        to.query(&sql, &[], |_| Ok(())).map(drop)
    }
}

impl Owned {
    fn read(row: &Row<'_>, place: usize, kind: Kind) -> Result<Self, Error> {
        Ok(match kind {
            Text => Self::Text(row.get(place)?),
            Integer => Self::Integer(row.get(place)?),
            Bytes => Self::Bytes(row.get(place)?),
            Boolean => Self::Boolean(row.get(place)?),
        })
    }

    fn value(&self) -> Value<'_> {
        match self {
            Self::Text(text) => Value::Text(text.as_deref()),
            Self::Integer(number) => Value::Integer(*number),
            Self::Bytes(bytes) => Value::Bytes(bytes.as_deref()),
            Self::Boolean(yes) => Value::Boolean(*yes),
        }
    }
}
