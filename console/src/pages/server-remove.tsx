// Removes a server from the configuration file that has it.

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { createPortal } from 'react-dom';
import { useLocation } from 'wouter';
import { api } from '../api/client';
import { useOwner } from '../api/owner';
import { type Server } from '../api/queries';
import { session } from '../api/session';
import { Button, CodeBox, Failure } from '../ui/basic';
import { Dialog } from '../ui/dialog';
import { quoted } from '../lib/words';
import { toast } from '../ui/toast';

export function RemoveServerButton({ server }: { server: Server }) {
  const client = useQueryClient();
  const owner = useOwner();
  const [, go] = useLocation();
  const [open, setOpen] = useState(false);
  const remove = useMutation({
    mutationFn: () => api.delete('/servers/{name}', { params: { name: server.name } }),
    onSuccess: ({ file }) => {
      toast(`Removed ${server.name} from ${file}`);
      go('/servers', { replace: true });
    },
    onSettled: () => void client.invalidateQueries(),
  });
  // Bundled servers are in no file.
  if (server.transport === 'bundled' || session.get().mode !== 'local') return null;
  return (
    <>
      <Button look="quiet" onClick={() => setOpen(true)}>Remove</Button>
      {open && createPortal(
        <Dialog title={`Remove ${server.name}?`} onClose={() => setOpen(false)}>
          <div className="stack">
            <p>Its entry is removed from the configuration file, and its tools from every list.</p>
            {remove.error && <Failure error={remove.error} />}
            {owner.data === false && (
              <>
                <p>This browser cannot remove it. Open the console with <code>toolbooth console</code>, or run:</p>
                <CodeBox what="command" text={`toolbooth servers remove ${quoted(server.name)}`} />
              </>
            )}
          </div>
          <div className="dialog-acts">
            <Button onClick={() => setOpen(false)}>Cancel</Button>
            {owner.data && <Button look="danger" busy={remove.isPending} onClick={() => remove.mutate()}>Remove</Button>}
          </div>
        </Dialog>, document.body)}
    </>
  );
}
