// A modal dialog: the browser's own, which keeps the focus inside and closes with Escape.

import { type ReactNode, useEffect, useRef } from 'react';
import { Button } from './basic';

export function Dialog({ title, onClose, children, className }: { title?: string; onClose: () => void; children: ReactNode; className?: string }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = dialog.current;
    if (!element || element.open) return () => element?.close();
    // The browser would focus the first button, which closes the dialog. A reader wants the title first, and a form its first field.
    element.showModal();
    if (document.activeElement?.closest('.dialog-head')) element.querySelector<HTMLElement>('.dialog-head h2')?.focus();
    return () => element?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      className={className}
      aria-label={title}
      onCancel={onClose}
      onClose={onClose}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      {title && <div className="dialog-head"><h2 tabIndex={-1}>{title}</h2><Button look="quiet" icon="cross" aria-label="Close" onClick={onClose} /></div>}
      {title ? <div className="dialog-body">{children}</div> : children}
    </dialog>
  );
}

/** Asks before an action that cannot be undone. */
export function Confirm({ title, children, action, onConfirm, onClose, busy }: { title: string; children: ReactNode; action: string; onConfirm: () => void; onClose: () => void; busy?: boolean }) {
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      <div className="dialog-acts">
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" busy={busy} onClick={onConfirm}>{action}</Button>
      </div>
    </Dialog>
  );
}
