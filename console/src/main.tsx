import { QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { Router } from 'wouter';
import { takeOwnerCode } from './api/owner';
import { queryClient } from './api/queries';
import { App } from './app';
import { consolePath } from './lib/place';
import './styles.css';
import { applyTheme } from './ui/theme';

applyTheme();
takeOwnerCode();
const root = document.getElementById('root');
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queryClient}>
        <Router base={consolePath}>
          <App />
        </Router>
      </QueryClientProvider>
    </StrictMode>,
  );
}
