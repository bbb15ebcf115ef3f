//! What the end of the audit chain costs PostgreSQL: its CPU time while groups of rows are added with the statements of a
//! gateway. CPU time, because it depends less on what else this machine does than the duration.

use super::report::ReplicaReport;
use crate::postgresql::PostgresServer;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

/// Gateways that write at the same time.
const WRITERS: [usize; 2] = [1, 3];
/// The rows of a group, and the number of groups that are written.
const GROUPS: [(usize, usize); 4] = [(1, 1_500), (10, 1_000), (50, 400), (500, 80)];

/// The transaction of a group, for pgbench. The hashes are not those of a chain.
const SCRIPT: &str = "\
BEGIN;
INSERT INTO replicas (id, lease_until, commit_number)
    VALUES (set_config('toolbooth.replica', 'r' || :client_id::text, true), now() + interval '10 seconds', 1)
    ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until, commit_number = replicas.commit_number + 1;
SELECT seq FROM audit_ends WHERE name = 'head' FOR UPDATE \\gset
INSERT INTO audit SELECT :seq::bigint + n, 1795032399661 + n, 'call', decode(md5((:seq::bigint + n)::text), 'hex'),
    'ann@example.org', NULL, NULL, 'agent', 'files', 'read_text_file', 'done', NULL, 12, decode(repeat('ab', 32), 'hex'),
    n * 300::bigint, decode(repeat('cd', 32), 'hex'), '{\"path\":\"/home/ann/notes.txt\"}', NULL
    FROM generate_series(1, :rows::int) n;
UPDATE audit_ends SET seq = :seq::bigint + :rows::int WHERE name = 'head';
COMMIT;
";

/// Measures in a database that gateways have migrated and do not use any more. `share` is the part of the groups that is
/// written.
pub fn measure(
    server: &PostgresServer,
    programs: &Path,
    share: f64,
    report: &mut ReplicaReport,
) -> Result<()> {
    let pgbench = programs.join("pgbench");
    if !pgbench.is_file() {
        report.measure("audit chain", "not measured: pgbench is not installed");
        return Ok(());
    }
    let folder = tempfile::tempdir().context("a temporary folder")?;
    let script = folder.path().join("group.sql");
    std::fs::write(&script, SCRIPT)?;
    for writers in WRITERS {
        for (rows, groups) in GROUPS {
            let each = ((groups as f64 * share) as usize / writers).max(5);
            let before = server.cpu_seconds()?;
            let mut run = Command::new(&pgbench);
            run.args(["--no-vacuum", "--protocol=prepared", "--jobs=1", "--define"]);
            run.arg(format!("rows={rows}")).arg(format!("--client={writers}"));
            run.arg(format!("--transactions={each}")).arg("--file").arg(&script).arg(server.url());
            let status = run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
            ensure!(status.context("pgbench did not start")?.success(), "pgbench failed");
            let commit = (server.cpu_seconds()? - before) / (each * writers) as f64;
            let seen = format!("{:.1} ms a commit, {:.0} µs a row", commit * 1e3, commit * 1e6 / rows as f64);
            report.measure(&format!("PostgreSQL, groups of {rows} audit rows, {writers} at a time"), seen);
        }
    }
    Ok(())
}
