// A button that cancels a call of this page while it waits for the answer.

import { useMutation } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { ApiError } from '../api/client';
import { cancelRequest } from '../api/running';
import { Button } from '../ui/basic';
import { toast } from '../ui/toast';

/** Ends the call of a request, and no other call of the tool. It appears after a second: most calls end before. */
export function CancelCall({ request }: { request: string }) {
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 1000);
    return () => clearTimeout(timer);
  }, []);
  const cancel = useMutation({
    mutationFn: () => cancelRequest(request),
    onSuccess: (wasRunning) => { if (!wasRunning) toast('The call has ended already.'); },
    onError: (error) => toast(ApiError.of(error).message),
  });
  return isLate ? <Button icon="cross" busy={cancel.isPending} onClick={() => cancel.mutate()}>Cancel</Button> : null;
}
