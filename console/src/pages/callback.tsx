// The page to which a server's sign-in leads back.

import { useMutation } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { useLocation } from 'wouter';
import { api } from '../api/client';
import { Failure, Skeleton } from '../ui/basic';
import { toast } from '../ui/toast';

export default function SignInCallback({ server }: { server: string }) {
  const [, go] = useLocation();
  const started = useRef(false);
  const finish = useMutation({
    mutationFn: () => api.post('/servers/{name}/login/finish', { params: { name: server }, body: { redirect: location.href } }),
    onSuccess: () => {
      toast(`${server} is signed in`);
      go(`/servers/${encodeURIComponent(server)}`, { replace: true });
    },
  });
  useEffect(() => {
    // A code can be used once.
    if (started.current) return;
    started.current = true;
    finish.mutate();
  }, [finish]);
  return (
    <div className="page">
      <h1>Signing in to {server}</h1>
      {finish.error ? <Failure error={finish.error} /> : <Skeleton lines={2} />}
    </div>
  );
}
