// Sign-in of the gateway to a server (OAuth): opens the server's page, which leads back to the console.

import { api } from '../api/client';
import { consolePath } from '../lib/place';
import { toast } from '../ui/toast';

export async function beginSignIn(server: string) {
  const redirect_uri = `${location.origin}${consolePath}/callback/${encodeURIComponent(server)}`;
  const { url } = await api.post('/servers/{name}/login', { params: { name: server }, body: { redirect_uri } });
  if (!url) {
    toast(`${server} is signed in`);
    return;
  }
  // The URL is the server's word: only web pages are opened.
  if (!/^https?:\/\//i.test(url)) throw new Error('The server gave a sign-in address that is not a web page.');
  location.assign(url);
}
