// A server whose entry refers to a variable that the gateway does not have: where it is used, and how to set it.

import { type Server, useSettings } from '../api/queries';
import { type UnsetVariable, pathFrom } from '../lib/config-place';
import { CodeBox } from '../ui/basic';
import { FilePlace, usePlace } from './entry-place';
import { EditServerButton } from './server-edit';
import { ReloadButton } from './server-fix';

export function MissingVariable({ server, variable: { name, place } }: { server: Server; variable: UnsetVariable }) {
  const settings = useSettings();
  const origin = usePlace('env_file');
  const named = settings.data?.settings.find((one) => one.key === 'env_file')?.value;
  const file = typeof named === 'string' ? pathFrom(origin?.file ?? '', named) : null;
  return (
    <section className="card card-body stack" aria-label="How to set the variable">
      <p>The entry of {server.name} uses <code>{`\${${name}}`}</code>{place && <> in <FilePlace place={place} /></>}. The gateway has no variable with this name. Set it in one of these ways:</p>
      <div className="stack tight">
        <h3>As a stored secret</h3>
        <p>Run this on the machine of the gateway, as the user that runs it. The command asks for the value and stores it sealed; the gateway uses it at once.</p>
        <CodeBox what="command" text={`toolbooth secrets set ${name}`} />
      </div>
      {file !== null && (
        <div className="stack tight">
          <h3>Or in the file of variables</h3>
          <p>Write the variable into <code className="wrap-any">{file}</code>, and reload:</p>
          <CodeBox what="line" text={`${name}="VALUE"`} />
          <div><ReloadButton /></div>
        </div>
      )}
      <div className="stack tight">
        <h3>Or in the environment of the gateway</h3>
        <p>Start the gateway from a shell that has the variable. The second line asks for the value, so that the shell does not record it. A gateway that runs as a service does not have the variables of a shell.</p>
        <CodeBox what="commands" text={`toolbooth stop\nread -rs ${name} && export ${name}\ntoolbooth start`} />
      </div>
      <div className="row wrap"><p className="grow">If the entry should use another variable or value:</p><EditServerButton server={server} /></div>
    </section>
  );
}
