// Shows an error of a page instead of an empty screen. After an update of the gateway, scripts of the old version are gone.

import { Component, type ReactNode } from 'react';
import { Button, Note } from './basic';

interface State {
  error: Error | null;
}

export class Boundary extends Component<{ children: ReactNode }, State> {
  override state: State = { error: null };

  static getDerivedStateFromError(error: Error): State {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    const isOld = /dynamically imported module|module script failed|Failed to fetch/i.test(error.message);
    return (
      <div className="page" role="alert">
        <Note tone="bad" action={<Button small onClick={() => location.reload()}>Reload</Button>}>
          <p className="strong">{isOld ? 'This page could not be loaded.' : 'This page has an error.'}</p>
          <p>{isOld ? 'The gateway may have been updated or stopped. Reload to get the current version.' : error.message}</p>
        </Note>
      </div>
    );
  }
}
