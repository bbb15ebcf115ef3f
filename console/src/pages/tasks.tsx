// Tasks: work that a person does or reviews, alone or as a part of a job.

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { ApiError, fetchJson } from '../api/client';
import { Ago, Button, Empty, Loaded, Status } from '../ui/basic';
import { toast } from '../ui/toast';
import { type Task, toneOf, useTasks } from './jobs-data';

const NEXT: Record<string, [target: string, label: string]> = {
  draft: ['ready', 'Make ready'],
  ready: ['in_progress', 'Start'],
  in_progress: ['review', 'Ask for review'],
  review: ['done', 'Done'],
};

export function TaskList() {
  const tasks = useTasks();
  const list = tasks.data?.pages.flatMap((page) => page.tasks) ?? [];
  return (
    <Loaded query={tasks} lines={5}>
      {() => list.length === 0 ? (
        <div className="card"><Empty title="No tasks"><p>Tasks come from files <code>tasks/*.json</code> beside the configuration, and from jobs.</p></Empty></div>
      ) : (
        <div className="stack tight">
          <ul className="card items">{list.map((task) => <TaskRow key={task.id} task={task} />)}</ul>
          {tasks.hasNextPage && <div><Button busy={tasks.isFetchingNextPage} onClick={() => void tasks.fetchNextPage()}>More tasks</Button></div>}
        </div>
      )}
    </Loaded>
  );
}

function TaskRow({ task }: { task: Task }) {
  const client = useQueryClient();
  const move = useMutation({
    mutationFn: (target: string) => fetchJson<unknown>('POST', '/tasks/{id}/transition', { params: { id: task.id }, body: { target_status: target } }),
    onError: (error) => toast(ApiError.of(error).message),
    onSettled: () => { void client.invalidateQueries({ queryKey: ['tasks'] }); void client.invalidateQueries({ queryKey: ['jobs'] }); },
  });
  const next = NEXT[task.status];
  return (
    <li>
      <span className="lead-col"><Status tone={toneOf(task.status)}>{task.status.replaceAll('_', ' ')}</Status></span>
      <div className="text">
        <p><b>{task.name}</b> {task.priority && <span className="tag">{task.priority}</span>} {task.tags?.map((tag) => <span key={tag} className="tag">{tag}</span>)}</p>
        <p className="muted small">{task.summary}{task.updated_at ? <> · <Ago ms={task.updated_at} /></> : null}</p>
        {(task.depends_on?.length ?? 0) > 0 && <p className="muted small">after {task.depends_on?.join(', ')}</p>}
      </div>
      <div className="acts">
        {next && <Button small look="primary" busy={move.isPending && move.variables === next[0]} onClick={() => move.mutate(next[0])}>{next[1]}</Button>}
        {!['done', 'cancelled'].includes(task.status) && <Button small busy={move.isPending && move.variables === 'cancelled'} onClick={() => move.mutate('cancelled')}>Cancel</Button>}
      </div>
    </li>
  );
}
