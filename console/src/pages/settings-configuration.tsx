// The configuration of the gateway: its files, and the settings that are set, each with its origin.

import { useState } from 'react';
import { Link } from 'wouter';
import { type Setting, useReady, useSettings } from '../api/queries';
import { plural } from '../lib/format';
import { type Json, pretty } from '../lib/json';
import { CodeBox, Empty, Loaded, Note, Prose } from '../ui/basic';
import { ReloadButton } from './server-fix';

export function Configuration() {
  const ready = useReady();
  return (
    <Loaded query={ready}>
      {({ config, revision, sessions }) => (
        <div className="stack">
          {config?.reload_error && <Note tone="bad" action={<ReloadButton />}><p className="strong">{config.reload_error.message}</p><p>{config.reload_error.hint} The last good configuration stays in force.</p></Note>}
          {(config?.restart_needed?.length ?? 0) > 0 && <Note tone="warn">These settings take effect after a restart: {config?.restart_needed?.join(', ')}</Note>}
          <section className="card card-body stack tight">
            <div className="row"><h2 className="grow">Files</h2>{!config?.reload_error && <ReloadButton />}</div>
            {config?.files.length ? <ul className="stack tight">{config.files.map((file) => <li key={file}><code className="wrap-any">{file}</code></li>)}</ul> : <p className="muted">No configuration file was found. The gateway runs with default settings and the bundled servers.</p>}
            <p className="muted small">Catalog revision {revision} · {plural(sessions ?? 0, 'open MCP session')} · <Link href="/servers">servers</Link></p>
          </section>
          <SettingList />
        </div>
      )}
    </Loaded>
  );
}

function SettingList() {
  const settings = useSettings();
  const [text, setText] = useState('');
  return (
    <section className="card" aria-labelledby="settings-set">
      <div className="card-head"><h2 id="settings-set">Settings</h2></div>
      <Loaded query={settings} lines={6}>
        {({ settings: list }) => {
          const words = text.toLowerCase();
          const shown = list.filter((setting) => !words || setting.key.toLowerCase().includes(words) || setting.origin.toLowerCase().includes(words));
          return (
            <>
              <div className="card-body stack tight">
                <p className="muted">What files, variables and arguments set, and where. All other settings have their default values. Secrets are masked.</p>
                <input className="input" style={{ maxWidth: 320 }} type="search" aria-label="Filter settings" placeholder="Filter by key or file" value={text} onChange={(event) => setText(event.target.value)} />
              </div>
              {list.length === 0 ? <Empty title="Nothing is set"><p>See all values in force, with their defaults:</p><CodeBox what="command" text="toolbooth config show --resolved" /></Empty> : (
                <ul className="items settings">{shown.map((setting) => <SettingRow key={setting.key} setting={setting} />)}</ul>
              )}
            </>
          );
        }}
      </Loaded>
    </section>
  );
}

/** A value as JSON: on one line if it is short. */
function written(value: Json): string {
  const line = JSON.stringify(value);
  return line.length <= 80 ? line : pretty(value);
}

function SettingRow({ setting }: { setting: Setting }) {
  const text = setting.value === undefined ? null : written(setting.value as Json);
  const server = setting.key.startsWith('servers.') && setting.value === undefined ? setting.key.slice('servers.'.length) : null;
  return (
    <li>
      <div className="text">
        <p className="wrap-any"><code className="strong">{setting.key}</code>{text !== null && !text.includes('\n') && <> = <code>{text}</code></>}{server && <> <Link className="small" href={`/servers/${encodeURIComponent(server)}`}>see the server</Link></>}</p>
        {text?.includes('\n') && <pre className="code" tabIndex={0} style={{ maxHeight: 160 }}>{text}</pre>}
        <p className="muted small wrap-any"><Prose text={setting.origin} /></p>
        {setting.overrides.map((other, index) => <p key={index} className="muted small wrap-any">overrides <code>{JSON.stringify(other.value)}</code> from <Prose text={other.origin} /></p>)}
      </div>
    </li>
  );
}
